import sys,os,urllib.parse
sys.path.insert(0,"/work/main/scripts")
import boto3
